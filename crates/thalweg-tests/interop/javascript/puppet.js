// The lines between a Node library and the checks; see ../README.md.

import { createInterface } from "node:readline";

const PATIENCE_MS = 15_000;

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");

export const hex = (content) => Buffer.from(content).toString("hex");
export const bytes = (text) => Buffer.from(text, "hex");
export const event = (kind, peer, fields) => write({ event: kind, peer, ...fields });

// Obeys standard input with one function per verb until it ends.
export function obeyAll(verbs) {
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => obey(verbs, JSON.parse(line)));
  input.on("close", () => process.exit(0));
  write({ event: "ready" });
}

async function obey(verbs, command) {
  let timer;
  const patience = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer to ${command.do}`)), PATIENCE_MS);
  });
  try {
    const fields = await Promise.race([verbs[command.do](command), patience]);
    write({ reply: command.id, ...fields });
  } catch (error) {
    write({ reply: command.id, error: String(error) });
  }
  clearTimeout(timer);
}
