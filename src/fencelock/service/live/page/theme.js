// A classic script, because it must run before the first paint: a white flash hurts at night.
try {
  const chosen = localStorage.getItem("fencelock.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden. Then the system's choice holds.
}
