"""Stores for agent packages, one module each.

    framework        MessageStore, MessageStoreMemory, SharedMemory (no package needed)
    openai_agents    MsgstoreSession, a Session of the OpenAI Agents SDK
    agent_framework  MsgstoreHistoryProvider of Microsoft's Agent Framework
    langchain        MsgstoreChatMessageHistory
    langgraph        MsgstoreSaver, a checkpointer of LangGraph; MsgstoreStore, its store
    pydantic_ai      save and load model messages
    adk              MsgstoreSessionService of Google's ADK

Each keeps its package's item unchanged inside a message of this library, so that views,
search, histories and requests for any provider work on it, too. Of LangGraph the items of
a store are such messages; checkpoints are data that only LangGraph reads.
"""
