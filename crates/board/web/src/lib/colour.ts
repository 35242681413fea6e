// Colours of pools, tenants and jobs, in both themes.
import { signal } from "@preact/signals";

const dark = matchMedia("(prefers-color-scheme: dark)");

export type Theme = "auto" | "light" | "dark";
export const theme = signal<Theme>((localStorage.getItem("theme") as Theme | null) ?? "auto");
/** What is in force. */
export const isDark = signal(false);

function apply(): void {
  isDark.value = theme.value === "dark" || (theme.value === "auto" && dark.matches);
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
}

dark.addEventListener("change", apply);
apply();

export function setTheme(to: Theme): void {
  theme.value = to;
  localStorage.setItem("theme", to);
  apply();
}

/** Hues that people with any kind of colour vision can tell apart, as far as that goes. */
const HUES = [174, 216, 34, 292, 96, 350, 258, 54, 196, 12, 130, 318];

/** A colour by number; `strength` 0 to 1 is how much is in use. */
export function tint(number: number, strength = 1): string {
  const hue = HUES[number % HUES.length]!;
  const lap = Math.floor(number / HUES.length) % 3;
  if (isDark.value) return `hsl(${hue} ${52 - lap * 14}% ${24 + strength * 32 + lap * 5}%)`;
  return `hsl(${hue} ${58 - lap * 14}% ${88 - strength * 44 - lap * 5}%)`;
}

/** A colour for a name of which there are many. */
export function ofName(name: string, strength = 1): string {
  let hash = 2166136261;
  for (let place = 0; place < name.length; place++) hash = Math.imul(hash ^ name.charCodeAt(place), 16777619);
  return tint((hash >>> 0) % 36, strength);
}

/** A colour behind text. */
export function behind(name: string): string {
  return ofName(name, isDark.value ? -0.1 : 0.25);
}

/** A colour of the style sheet. */
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
