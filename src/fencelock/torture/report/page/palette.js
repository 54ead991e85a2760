// The colours of the canvas: those of the style sheet, in the theme of the reader.

const TONES = ["ground", "panel", "raised", "line", "text", "muted", "accent", "wait", "accepted", "refused", "bad", "bad-ground", "stall",
  "s0", "s1", "s2", "s3", "s4", "s5", "f0", "f1", "f2", "f3", "f4", "f5", "f6"];

/** {tone: colour}, as they are now. */
function palette() {
  const probe = $("probe");
  return Object.fromEntries(TONES.map((tone) => {
    probe.style.color = `var(--${tone})`;
    return [tone, getComputedStyle(probe).color];
  }));
}

/** Which tone a kind of fault has: in the order of the verdict, then of the history. */
function faultTones(history) {
  const kinds = [...new Set([...Object.keys(history.verdict?.faults ?? {}), ...history.faults.map((each) => each.kind)])];
  return new Map(kinds.map((kind, at) => [kind, `f${at % 7}`]));
}

/** Which tone a lease has: by its name if there are several, else by its share. */
function leaseTones(history) {
  const names = [...new Set([...(history.run.names ?? []), ...history.lanes.flatMap((lane) => lane.grants.items.map((each) => each.name))])];
  const shares = [...new Set(history.lanes.flatMap((lane) => lane.grants.items.map((each) => each.share)))].sort();
  const byName = names.length > 1 && shares.length < 2;
  const keys = (byName ? names : shares).filter((each) => each !== undefined);
  const tones = new Map(keys.map((key, at) => [key, `s${at % 6}`]));
  return { byName, tones, of: (grant) => tones.get(byName ? grant.name : grant.share) ?? "s0" };
}
