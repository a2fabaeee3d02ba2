/** The packed file, installed into an empty project: the first screens of the READMEs, and the types as projects see them. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, after, test } from "node:test";
import { startServer } from "../servers.ts";

const packed = path.resolve(import.meta.dirname, "../..");
const root = path.resolve(packed, "../..");
const project = mkdtempSync(path.join(tmpdir(), "redis-lock-adapters-"));
after(() => rmSync(project, { recursive: true, force: true }));

const run = (program: string, ...given: string[]): string => {
  try {
    return execFileSync(program, given, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${program} ${given.join(" ")}: ${stdout}${stderr}`);
  }
};
const write = (name: string, text: string): void => writeFileSync(path.join(project, name), text);
const tsc = (...given: string[]): string => run(process.execPath, path.join(root, "node_modules/typescript/bin/tsc"), ...given);
const version = (name: string): string =>
  (JSON.parse(readFileSync(path.join(root, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

before(() => {
  const file = readdirSync(packed).find((name) => name.endsWith(".tgz"));
  assert(file);
  write("package.json", '{ "private": true, "type": "module" }');
  const peers = ["ioredis", "@opentelemetry/api", "@nestjs/common", "@nestjs/core", "reflect-metadata", "rxjs"].map((name) => `${name}@${version(name)}`);
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", path.join(packed, file), ...peers);
  symlinkSync(path.join(root, "node_modules/@types"), path.join(project, "node_modules/@types"), "dir");
});

const firstScreen = (readme: string, port: number): string => {
  const file = path.join(project, "node_modules/redis-lock-client", readme);
  const [, first = ""] = /```ts\n([^]*?)```/.exec(readFileSync(file, "utf8")) ?? [];
  const pasted = first.replace("new Redis()", `new Redis(${port})`);
  assert.notEqual(pasted, first);
  return pasted;
};

const STRICT = { strict: true, target: "es2022", lib: ["es2022", "esnext.disposable"], types: ["node"], skipLibCheck: false };

test("redlock's first screen works when pasted, as TypeScript, ESM and CommonJS", async () => {
  const server = await startServer();
  const pasted = firstScreen("redlock/README.md", server.port);
  write("redlock.mts", pasted);
  write("tsconfig.json", JSON.stringify({ files: ["redlock.mts"], compilerOptions: { ...STRICT, module: "nodenext" } }));
  tsc();
  assert.match(run(process.execPath, "redlock.mjs"), /^worked under the lock: 3 fence writes with \d{16}\n$/);
  write("redlock.cjs", `const { default: Redlock, ExecutionError } = require("redis-lock-client/redlock");
    const { Redis } = require("ioredis");
    (async () => {
      const esm = await import("redis-lock-client/redlock");
      const redlock = new Redlock([new Redis(${server.port})], { retryCount: 0 });
      await redlock.acquire(["a"], 5000);
      await redlock.acquire(["a"], 5000).catch((error) => console.log(error instanceof ExecutionError, esm.default === Redlock));
      await redlock.quit();
    })();`);
  assert.equal(run(process.execPath, "redlock.cjs"), "true true\n");
});

test("the NestJS module's first screen works when pasted", async () => {
  const server = await startServer();
  write("nest.mts", firstScreen("nestjs/README.md", server.port));
  write("tsconfig.json", JSON.stringify({ files: ["nest.mts"], compilerOptions: { ...STRICT, module: "nodenext", skipLibCheck: true,
    experimentalDecorators: true, emitDecoratorMetadata: true } }));
  tsc();
  assert.match(run(process.execPath, "nest.mjs"), /^(order [12] fence writes with \d{16}\n){3}holders left: 0\n$/);
});

test("the metrics of the README work when pasted, as TypeScript, ESM and CommonJS", async () => {
  const server = await startServer();
  const readme = readFileSync(path.join(project, "node_modules/redis-lock-client/README.md"), "utf8");
  const [, program = ""] = [...readme.matchAll(/```ts\n([^]*?)```/g)].find(([, it]) => it?.includes("/otel")) ?? [];
  const pasted = program.replace("new Redis()", `new Redis(${server.port})`);
  assert.notEqual(pasted, program);
  write("otel.mts", `${pasted}await locks.lock("a").run(() => console.log("measured"));\nprocess.exit();\n`);
  write("tsconfig.json", JSON.stringify({ files: ["otel.mts"], compilerOptions: { ...STRICT, module: "nodenext" } }));
  tsc();
  assert.equal(run(process.execPath, "otel.mjs"), "measured\n");
  write("otel.cjs", `const { lockMetrics } = require("redis-lock-client/otel");
    import("redis-lock-client/otel").then((esm) => console.log(esm.lockMetrics === lockMetrics));`);
  assert.equal(run(process.execPath, "otel.cjs"), "true\n");
});

test("the types are found by older resolution, too, as in Nest's own template", async () => {
  write("old.cts", `import Redlock = require("redis-lock-client/redlock");
    export const settings: Partial<Redlock.Settings> = { retryCount: 1 };`);
  write("old.ts", `import { Locks, QuorumLocks } from "redis-lock-client";
    import { LocksModule } from "redis-lock-client/nestjs";
    import { lockMetrics } from "redis-lock-client/otel";
    import Redlock, { type Settings } from "redis-lock-client/redlock";
    export const all: unknown[] = [Locks, QuorumLocks, LocksModule, lockMetrics, Redlock];
    export const settings: Partial<Settings> = { retryCount: 1 };`);
  write("tsconfig.json", JSON.stringify({ files: ["old.ts"], compilerOptions: { ...STRICT, noEmit: true, module: "commonjs",
    moduleResolution: "node10", esModuleInterop: true, skipLibCheck: true } }));
  tsc();
  write("tsconfig.json", JSON.stringify({ files: ["old.cts"], compilerOptions: { ...STRICT, noEmit: true, module: "nodenext" } }));
  tsc();
});
