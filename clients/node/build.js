// Builds dist: one implementation in CommonJS, so that `instanceof` holds however the package is loaded, and
// modules that pass its names on.

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

process.chdir(import.meta.dirname ?? new URL(".", import.meta.url).pathname);
rmSync("dist", { recursive: true, force: true });
const require = createRequire(import.meta.url);
execFileSync(process.execPath, [require.resolve("typescript/bin/tsc"), "--project", "tsconfig.dist.json"], { stdio: "inherit" });
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
for (const [name, source] of [["index", "index"], ["testing", "testing"], ["redlock", "redlock/index"], ["nestjs", "nestjs/index"],
  ["otel", "otel/index"]]) {
  const names = Object.keys(require(`./dist/cjs/${source}.js`)).filter((it) => it !== "default").join(", ");
  const from = `from "./cjs/${source}.js";\n`;
  const also = name === "redlock" ? `export { Redlock as default } ${from}` : "";
  writeFileSync(`dist/${name}.js`, `export { ${names} } ${from}${also}`);
  writeFileSync(`dist/${name}.d.ts`, `export * ${from}${also}`);
}
