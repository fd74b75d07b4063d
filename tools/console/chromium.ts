import { type Browser, chromium } from 'playwright-core';

/** Starts Chromium (Debian: `apt-get install chromium`; CHROMIUM names another one). */
export function launchChromium(...args: readonly string[]): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', ...args],
  });
}
