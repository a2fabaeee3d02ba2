/**
 * Each export has an example in its comment, or leads to one by `@see`; each of its members has a comment. The examples
 * compile, and run if they need neither a server nor a framework.
 */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import ts from "typescript";
import { Locks } from "../src/index.ts";
import { TestServer } from "../src/testing.ts";

const root = path.resolve(import.meta.dirname, "../..");
const folder = path.join(root, "build/examples");
const entries: Record<string, string> = { "redis-lock-client": "index", "redis-lock-client/testing": "testing",
  "redis-lock-client/redlock": "redlock/index", "redis-lock-client/nestjs": "nestjs/index", "redis-lock-client/otel": "otel/index" };

/** The names that the examples use. */
const FRAME = `import type { Locks } from "../src/index.js";
  declare global {
    const locks: Locks, others: Locks;
    const pay: (...given: unknown[]) => Promise<void>, report: typeof pay, answer: (...given: unknown[]) => void;
    const askSentinels: () => Promise<{ url: string }>;
    class AppModule {}
  }`;

const examples = readdirSync(path.join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"))
  .flatMap((name) => [...readFileSync(path.join(root, "src", name), "utf8").matchAll(/```ts\n([^]*?)```/g)].map(([, text = ""], i) => ({
    file: path.join(folder, `${name.slice(0, -3).replaceAll("/", "-")}-${i}.ts`),
    text: `${text.replace(/^ *\* ?/gm, "").replace(/"redis-lock-client[^"]*"/g, (of) => `"../src/${entries[of.slice(1, -1)]}.js"`)}export {};\n`,
  })));

test("each export has an example, and each example works", async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const frame = path.join(folder, "frame.d.ts");
  writeFileSync(frame, FRAME);
  for (const { file, text } of examples) writeFileSync(file, text);
  const modules = Object.values(entries).map((name) => path.join(root, "build/src", `${name}.d.ts`));
  const program = ts.createProgram([frame, ...modules, ...examples.map(({ file }) => file)], { strict: true, skipLibCheck: true,
    module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    types: ["node"], experimentalDecorators: true, emitDecoratorMetadata: true });
  const wrong = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  assert.equal(ts.formatDiagnostics(wrong, { getCurrentDirectory: () => folder, getCanonicalFileName: (name) => name, getNewLine: () => "\n" }), "");

  const checker = program.getTypeChecker();
  const symbols = modules.flatMap((name) => checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(name)!)!))
    .map((symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol));
  const missing: string[] = [];
  for (const symbol of symbols) {
    const tags = (of: ts.Symbol): string[] => of.getJsDocTags(checker).map(({ name }) => name);
    if (!tags(symbol).some((name) => name === "example" || name === "see")) missing.push(`an example of ${symbol.name}`);
    if (/^(Ioredis|NodeRedis)C/.test(symbol.name)) continue; // their members are those of the libraries
    for (const member of [...symbol.members?.values() ?? [], ...symbol.exports?.values() ?? []]) {
      const isPublic = !/#private|^prototype$/.test(member.name) && !(member.flags & ts.SymbolFlags.TypeParameter);
      if (!isPublic || tags(member).includes("internal") || member.getDocumentationComment(checker).length > 0) continue;
      missing.push(`a comment of ${symbol.name}.${member.name}`);
    }
  }
  assert.deepEqual(missing, []);

  const server = new TestServer();
  await using locks = new Locks(server);
  await using others = new Locks(server);
  Object.assign(globalThis, { locks, others, pay: () => pause(1), report: () => pause(1), answer: () => {} });
  const run = examples.filter(({ text }) => !/from "(ioredis|@redis|@nestjs)/.test(text));
  assert(run.length >= 8);
  for (const { file } of run) await import(file.replace(/ts$/, "js"));
});
