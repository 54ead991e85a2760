// What the reader has chosen. This browser remembers it.

const PREFIX = "fencelock.";

export function remembered(key, otherwise) {
  try {
    return localStorage.getItem(PREFIX + key) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    // Storage may be forbidden. Then the choice holds until the page is loaded again.
  }
}

/** "auto", "light" or "dark". theme.js reads it before the first paint. */
export function theme() {
  return remembered("theme", "auto");
}

export function setTheme(chosen) {
  remember("theme", chosen === "auto" ? null : chosen);
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  dispatchEvent(new Event("theme"));
}
