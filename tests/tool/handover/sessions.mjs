// Reads a session with the program's own public reader, and prints its messages as JSON:
//     sessions.mjs pi FILE | claude-code SESSION FOLDER

const [program, ...rest] = process.argv.slice(2);
if (program === "pi") {
    const { SessionManager } = await import("@mariozechner/pi-coding-agent");
    console.log(JSON.stringify(SessionManager.open(rest[0]).buildSessionContext().messages));
} else {
    const { getSessionMessages } = await import("@anthropic-ai/claude-agent-sdk");
    const list = await getSessionMessages(rest[0], { dir: rest[1] });
    console.log(JSON.stringify(list.map((entry) => entry.message)));
}
