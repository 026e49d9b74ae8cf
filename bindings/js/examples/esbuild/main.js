// A program for Node in one file: esbuild puts the bytes of the WebAssembly module
// into it.
import { load, user } from "msgstore";
import wasm from "msgstore/msgstore.wasm";

const library = await load(wasm);
const store = library.open();
store.append([user("hello"), user("again")], "chat_1");
console.log(store.query("chat_1").map((message) => message.content).join(" "));
