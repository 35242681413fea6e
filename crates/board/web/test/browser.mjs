// Debian's Chromium, driven by Playwright.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

export const CHROMIUM = process.env.LANDFALL_CHROMIUM ?? "/usr/bin/chromium";

export function present() {
  return existsSync(CHROMIUM);
}

export function launch() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: CHROMIUM, args });
}
