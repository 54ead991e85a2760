"use strict";
// Numbers, moments and strangers' text, as people read them; and the elements that show them.

const $ = (id) => document.getElementById(id);

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/gu;

/** Text of strangers: what is invisible, or turns the text around it, is written out; and not too long. */
function visible(text, most = 200) {
  const all = String(text);
  const some = all.slice(0, most).replace(HIDDEN, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
  return all.length > most ? `${some}… (${count(all.length)} characters)` : some;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

const count = (number) => (isNumber(number) ? number.toLocaleString("en") : "–");

const several = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A moment: seconds since the run began, as in the history. */
const moment = (at, digits = 3) =>
  isNumber(at) ? `${at.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} s` : "–";

/** A duration with three digits that matter: "420 ms", "1.25 s", "90 s". */
function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size > 0 && size < 0.9995) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  return size < 1000 ? `${Number(seconds.toPrecision(3))} s` : `${count(Math.round(seconds))} s`;
}

/** "a, b and c" */
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/** A new element. Children that are strings become text, never markup: names are data of strangers. */
function el(tag, about = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(about)) {
    if (key === "press") node.addEventListener("click", value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
  return node;
}

/** Strangers' text in an element of its own, so that its direction stays its own business. */
const bdi = (text, most) => el("bdi", {}, visible(text, most));

/** A table that scrolls by itself where it does not fit. */
function table(label, heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => (cell instanceof Element && cell.tagName === "TD" ? cell : el("td", {}, cell)))))),
    ));
}
