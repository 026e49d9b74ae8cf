// A page: Vite copies the WebAssembly module beside the program and gives its address.
import { load, user } from "msgstore";
import address from "msgstore/msgstore.wasm?url";

const library = await load(fetch(address));
const store = library.open();
store.append([user("hello"), user("again")], "chat_1");
document.querySelector("output").textContent =
  store.query("chat_1").map((message) => message.content).join(" ");
