// Numbers, moments and strangers' text, as people read them. Pure.

const ENGLISH = new Intl.NumberFormat("en");
const two = (number) => String(Math.floor(number)).padStart(2, "0");

/** Seconds as people say them: "420 ms", "4.2 s", "12 m 05 s", "3 h 04 m", "5 d 04 h". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.0095) return `${(seconds * 1000).toFixed(seconds < 0.00095 ? 2 : 1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} m`;
  return `${Math.floor(whole / 86400)} d ${two((whole % 86400) / 3600)} h`;
}

/** The same for what grows before the reader's eyes: no fractions that flicker. */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : duration(whole);
}

/** A moment in the reader's time zone. The date is left out if it is today. */
export function moment(time, now = Date.now() / 1000) {
  const date = new Date(time * 1000);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date(now * 1000).toDateString()) return clock;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

export function count(number) {
  return ENGLISH.format(number);
}

/** "1 name", "2,000 names". */
export function several(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** At most three digits that matter. */
export function figure(number) {
  if (number === null || number === undefined) return "–";
  if (Math.abs(number) >= 100) return count(Math.round(number));
  return String(Number(number.toPrecision(3)));
}

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

/** Text of strangers. What is invisible, or turns the text around it, is written out. */
export function visible(text) {
  const written = text.replace(HIDDEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
  return written.replace(/^ +| +$| {2,}/g, (spaces) => "␣".repeat(spaces.length));
}

/** "web-3:4711": where an owner is. */
export function place(owner) {
  return `${owner.host}:${owner.pid}`;
}

/** "worker (web-3:4711)": an owner in one line. */
export function person(owner) {
  if (!owner) return "–";
  return visible(owner.label ? `${owner.label} (${place(owner)})` : place(owner));
}
