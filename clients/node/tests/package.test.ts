/** The package as users get it, installed into an empty project: the READMEs' first programs, CommonJS, and the types. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { startServer } from "./servers.ts";

const root = path.resolve(import.meta.dirname, "../..");
const project = mkdtempSync(path.join(tmpdir(), "redis-lock-client-"));
const installed = path.join(project, "node_modules/redis-lock-client");
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
const version = (name: string): string =>
  (JSON.parse(readFileSync(path.join(root, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

/** Compiles files in strict mode, with nothing skipped unless the options say otherwise. */
function compile(files: string[], options: object): void {
  const compilerOptions = { strict: true, exactOptionalPropertyTypes: true, target: "es2022", lib: ["es2022", "esnext.disposable"],
    types: ["node"], ...options };
  write("tsconfig.json", JSON.stringify({ files, compilerOptions }));
  run(process.execPath, path.join(root, "node_modules/typescript/bin/tsc"));
}

before(() => {
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", project], { cwd: root, encoding: "utf8" });
  const file = packed.trim().split("\n").at(-1);
  assert.equal(file, "redis-lock-client-0.3.0.tgz");
  write("package.json", '{ "private": true }'); // as `npm init` and `nest new` make it: CommonJS
  const peers = ["ioredis", "@opentelemetry/api", "@nestjs/common", "@nestjs/core", "reflect-metadata", "rxjs"];
  run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", `./${file}`,
    ...peers.map((name) => `${name}@${version(name)}`));
  symlinkSync(path.join(root, "node_modules/@types"), path.join(project, "node_modules/@types"), "dir");
});

test("the package has what it needs, and no more", () => {
  const inside = readdirSync(installed, { recursive: true, encoding: "utf8" });
  for (const name of ["README.md", "LICENSE", "CHANGELOG.md", "dist/index.js", "dist/index.d.ts", "dist/cjs/index.js"]) {
    assert(inside.includes(name), name);
  }
  assert(!inside.some((name) => /tests|trial|node_modules/.test(name)));
});

function programsOf(readme: string): string[] {
  return [...readFileSync(path.join(installed, readme), "utf8").matchAll(/```[jt]s\n([^]*?)```/g)].map(([, text = ""]) => text);
}

const outputs = {
  "README.md": /^fence writes with \d{16}\n$/,
  "redlock/README.md": /^worked under the lock: 3 fence writes with \d{16}\n$/,
  "otel/README.md": /^measured\n$/,
  "nestjs/README.md": /^(order [12] fence writes with \d{16}\n){3}free again: true\n$/,
};
for (const [readme, output] of Object.entries(outputs)) {
  test(`the first program works when pasted: ${readme}`, async () => {
    const { port } = await startServer();
    const [first = ""] = programsOf(readme);
    const pasted = first.replace("new Redis()", `new Redis(${port})`);
    assert.notEqual(pasted, first);
    const isNest = readme === "nestjs/README.md"; // whose project is compiled
    write(isNest ? "main.ts" : "main.mjs", pasted);
    if (isNest) {
      const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true };
      compile(["main.ts"], { module: "nodenext", isolatedModules: true, skipLibCheck: true, ...decorators });
    }
    assert.match(run(process.execPath, isNest ? "main.js" : "main.mjs"), output);
  });
}

test("the program with a stand-in works when pasted", () => {
  write("unit.mjs", programsOf("README.md").find((text) => text.includes("TestServer")) ?? "");
  assert.equal(run(process.execPath, "unit.mjs"), "");
});

test("CommonJS works, and both forms have the same classes", () => {
  write("both.js", `const names = ["", "/testing", "/redlock", "/otel", "/nestjs"].map((name) => "redis-lock-client" + name);
    const { Locks } = require("redis-lock-client");
    const { TestServer } = require("redis-lock-client/testing");
    (async () => {
      for (const name of names) {
        const [one, other] = [require(name), await import(name)];
        for (const it of Object.keys(one)) if (one[it] !== other[it]) console.log(name, it);
      }
      const locks = new Locks(new TestServer());
      await locks.lock("a").run(({ token }) => token > 0 && console.log("held"));
      await locks.close();
    })();`);
  assert.equal(run(process.execPath, "both.js"), "held\n");
});

test("the types are found by every resolution, with nothing skipped where the frameworks allow that", () => {
  const use = (redlock: string): string => `${redlock}
    import { Redis } from "ioredis";
    import { metrics } from "@opentelemetry/api";
    import { Locks, type Grant } from "redis-lock-client";
    import { lockMetrics } from "redis-lock-client/otel";
    import { TestServer } from "redis-lock-client/testing";
    export const redlock = new Redlock([new Redis()], { retryCount: 1 } satisfies Partial<Settings>);
    export const locks = new Locks(new Redis(), { observer: lockMetrics(metrics.getMeter("shop")) });
    export const held = (): Promise<Grant | undefined> => locks.lock("a", { wait: 5 }).tryAcquire();
    export const standIn = (): Locks => new Locks(new TestServer());
    export async function using(): Promise<number> {
      await using grant = await locks.permit("a", { of: 2 }).acquire();
      return grant.token;
    }`;
  const redlock = 'import Redlock, { type Settings } from "redis-lock-client/redlock";';
  write("first.mts", programsOf("README.md")[0] ?? "");
  write("use.mts", use(redlock));
  write("use.cts", use(`import all = require("redis-lock-client/redlock");
    const Redlock = all.default;
    type Settings = all.Settings;`));
  write("old.ts", use(`${redlock} import { LocksModule } from "redis-lock-client/nestjs"; export { LocksModule };`));
  compile(["first.mts", "use.mts", "use.cts"], { module: "nodenext", noEmit: true });
  compile(["old.ts"], { module: "commonjs", moduleResolution: "node10", esModuleInterop: true, skipLibCheck: true, noEmit: true });
});
