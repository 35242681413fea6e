// Takes the pictures of the README and the guide from a live cluster: LANDFALL_PROGRAM=…/landfall node test/pictures.mjs DIRECTORY
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./browser.mjs";
import { World } from "./world.mjs";

const folder = process.argv[2];
mkdirSync(folder, { recursive: true });
const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall");
let browser;
try {
  await world.begin({ up: ["--stop-jobs"] });
  await world.hollow(24, "--gpus", "8:A100:80GiB", "--pool", "gpu", "--prefix", "gpu", "--task-time", "1h..2h");
  await world.hollow(16, "--cpus", "64", "--pool", "hpc", "--prefix", "hpc", "--task-time", "30min..1h");
  browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 940 }, colorScheme: "light" });
  const page = await context.newPage();
  await page.goto(world.address);
  await page.locator(".map canvas").waitFor();
  // A line needs some points, one every 15 seconds.
  const jobs = await world.furnish();
  await page.waitForTimeout(Number(process.env.LANDFALL_PICTURE_WAIT ?? 65) * 1000);
  const shoot = async (name, path, size = {}) => {
    await page.setViewportSize({ width: 1280, height: 940, ...size });
    await page.evaluate((path) => (location.hash = path), path);
    await page.waitForTimeout(1500);
    await page.screenshot({ path: join(folder, `${name}.png`) });
    console.log(join(folder, `${name}.png`));
  };
  await shoot("overview", "/?by=tenant", { height: 1480 });
  await shoot("job", `/jobs/${jobs.gang}`, { height: 760 });
  await shoot("timeline", "/timeline?pool=hpc&hours=6", { height: 760 });
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await world.end();
}
process.exit();
