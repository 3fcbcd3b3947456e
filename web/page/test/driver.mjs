// Drives a headless Chromium for tests in Go: reads one JSON command a line from standard input, and writes one JSON answer a line.
import { createInterface } from "node:readline";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ acceptDownloads: true });
const pages = new Map();

const commands = {
  async open({ tab, url, width = 1280, height = 800, dark = false }) {
    let page = pages.get(tab);
    if (!page) {
      page = await context.newPage();
      page.failures = [];
      page.on("console", (m) => ["error", "warning"].includes(m.type()) && page.failures.push(m.text()));
      page.on("pageerror", (e) => page.failures.push(String(e)));
      pages.set(tab, page);
    }
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    const answer = await page.goto(url, { waitUntil: "load" });
    return { status: answer?.status() ?? 0, headers: answer?.headers() ?? {} };
  },
  // evaluate runs an expression in the page; wait does so until it is true.
  evaluate: ({ tab, text }) => pages.get(tab).evaluate(text),
  async wait({ tab, text, timeout = 10000 }) {
    // Not waitForFunction: that evaluates a text inside the page, which the page's content policy forbids.
    const began = performance.now();
    for (;;) {
      if (await pages.get(tab).evaluate(`Boolean(${text})`)) return performance.now() - began;
      if (performance.now() - began > timeout) throw new Error(`not so after ${timeout} ms`);
      await new Promise((next) => setTimeout(next, 16));
    }
  },
  click: ({ tab, text }) => pages.get(tab).click(text, { timeout: 5000 }),
  fill: ({ tab, text, value }) => pages.get(tab).fill(text, value, { timeout: 5000 }),
  choose: ({ tab, text, value }) => pages.get(tab).selectOption(text, value, { timeout: 5000 }),
  press: ({ tab, text }) => pages.get(tab).keyboard.press(text),
  async screenshot({ tab, text }) {
    await pages.get(tab).screenshot({ path: text, timeout: 120000 });
  },
  async download({ tab, text }) {
    const page = pages.get(tab);
    const [file] = await Promise.all([page.waitForEvent("download", { timeout: 5000 }), page.click(text)]);
    return { name: file.suggestedFilename(), text: await readFile(await file.path(), "utf8") };
  },
  failures: ({ tab }) => pages.get(tab).failures.splice(0),
  async axe({ tab }) {
    const source = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    const page = pages.get(tab);
    await page.evaluate(source);
    return page.evaluate(async () => (await axe.run()).violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html) })));
  },
  // heap is what the page's JavaScript holds after a collection, in bytes.
  async heap({ tab }) {
    const session = await context.newCDPSession(pages.get(tab));
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    return usedSize;
  },
  // busy is the processor time of the page's main thread since the first call, in seconds.
  async busy({ tab }) {
    const page = pages.get(tab);
    if (!page.busy) {
      page.busy = await context.newCDPSession(page);
      await page.busy.send("Performance.enable", { timeDomain: "threadTicks" });
    }
    const { metrics } = await page.busy.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "TaskDuration").value;
  },
  // renderer is the process that draws the page of a tab. With one tab there is one.
  async renderer() {
    const session = await browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    await session.detach();
    return processInfo.filter((p) => p.type === "renderer").map((p) => p.id);
  },
  async close({ tab }) {
    await pages.get(tab).close();
    pages.delete(tab);
  },
  async offline({ text }) {
    await context.setOffline(text === "true");
  },
};

console.log(JSON.stringify({ value: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...args } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await commands[command](args)) ?? null }));
  } catch (e) {
    console.log(JSON.stringify({ error: String(e.message ?? e) }));
  }
}
await browser.close();
