// Looks at pages of the built site in a browser, wide and narrow, light and dark: axe finds nothing, nothing is wider than
// the page, and the keyboard alone is enough. Keeps a screenshot of each.
//
// usage: node check.mjs <browser> <folder of the site> <folder of the screenshots>

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [executablePath, site, screenshots] = process.argv.slice(2);
const url = (page) => `file://${site}/${page}.html`;

const PAGES = ["index", "docs/tutorial", "docs/clients", "docs/commands/lock.acquire", "docs/operations/troubleshooting"];
const GO = "api/go/redislock"; // a page of this site's own making, where Go is installed
if (existsSync(`${site}/${GO}.html`)) PAGES.push(GO);
const SCREENS = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const failures = [];
const errors = [];

async function open(viewport, colorScheme, path) {
  const page = await browser.newPage({ viewport, colorScheme });
  page.setDefaultTimeout(120_000);
  page.on("pageerror", (error) => errors.push(`${path}: ${error.message}`));
  await page.goto(url(path));
  return page;
}

for (const [screen, viewport] of Object.entries(SCREENS)) {
  for (const scheme of ["light", "dark"]) {
    for (const path of PAGES) {
      const page = await open(viewport, scheme, path);
      const where = `${path}, ${screen}, ${scheme}`;
      await page.screenshot({ path: `${screenshots}/${path.replaceAll("/", "-")}-${screen}-${scheme}.png` });
      const width = await page.evaluate("document.scrollingElement.scrollWidth");
      if (width > viewport.width) failures.push(`${where}: ${width} pixels wide`);
      await page.evaluate(axe);
      for (const { id, help, nodes } of (await page.evaluate("axe.run()")).violations) {
        failures.push(`${where}: ${id}: ${help}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
      }
      await page.close();
    }
  }
}

// The keyboard: every place that has the focus is seen, a search leads to a page, and the theme can be chosen.
const page = await open(SCREENS.wide, "light", "docs/tutorial");
const focused = () => page.evaluate(() => {
  const at = document.activeElement;
  const { outlineStyle, boxShadow } = getComputedStyle(at);
  return { is: `${at.tagName} ${at.id || at.textContent.trim()}`, seen: outlineStyle !== "none" || boxShadow !== "none" };
});
const reached = new Set();
for (let presses = 0; presses < 150; presses++) {
  await page.keyboard.press("Tab");
  const { is, seen } = await focused();
  reached.add(is);
  if (!seen && !is.startsWith("BODY")) failures.push(`keyboard: no focus is seen on ${is}`);
}
for (const button of ["BUTTON mdbook-sidebar-toggle", "BUTTON mdbook-theme-toggle", "BUTTON mdbook-search-toggle"]) {
  if (!reached.has(button)) failures.push(`keyboard: ${button} is not reached`);
}
await page.evaluate("document.activeElement.blur()");
await page.keyboard.press("/");
await page.keyboard.type("fencing token");
await page.waitForSelector("#mdbook-searchresults a");
await page.keyboard.press("ArrowDown");
await page.keyboard.press("Enter");
await page.waitForURL(/highlight=/);
await page.focus("#mdbook-sidebar-toggle");
await page.keyboard.press("Enter");
await page.waitForSelector("#mdbook-sidebar[aria-hidden=true]", { state: "attached" });
await page.focus("#mdbook-theme-toggle");
await page.keyboard.press("Enter");
await page.keyboard.press("End");
await page.keyboard.press("Enter");
await page.waitForSelector("html:not(.light)");

await browser.close();
assert.deepEqual([...failures, ...errors], []);
console.log(`${PAGES.length} pages on 2 screens in 2 themes: nothing to mend`);
