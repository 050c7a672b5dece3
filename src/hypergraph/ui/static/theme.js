// @ts-check
/** Light or dark: what the system prefers, unless chosen here. */
import { effect, signal } from "@preact/signals";

const KEY = "hypergraph-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function remembered() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // a browser may keep nothing
  }
}

export const theme = signal(remembered());
const prefersDark = signal(system.matches);
system.addEventListener("change", (event) => (prefersDark.value = event.matches));

export function isDark() {
  return theme.value === "dark" || (theme.value !== "light" && prefersDark.value);
}

effect(() => {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
});

/** Choose the other theme; choosing what the system prefers follows the system again. */
export function toggleTheme() {
  const dark = !isDark();
  theme.value = dark === prefersDark.value ? "auto" : dark ? "dark" : "light";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // then it holds for this page
  }
}
