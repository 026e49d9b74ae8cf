"""Stores for agent packages, one module each.

    framework        MessageStore, MessageStoreMemory, SharedMemory (no package needed)
    openai_agents    MsgstoreSession, a Session of the OpenAI Agents SDK
    agent_framework  MsgstoreHistoryProvider of Microsoft's Agent Framework
    langchain        MsgstoreChatMessageHistory
    pydantic_ai      save and load model messages
    adk              MsgstoreSessionService of Google's ADK

Each keeps what its package gave whole, and beside it a message of this library's own
format, so that views, search, histories and requests for any provider work on it, too.
"""
