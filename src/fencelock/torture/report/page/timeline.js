// The timeline: which part of the run is shown, and how keys, mouse and fingers change it.

const LEAST = 0.0005; // seconds that fill the window at the highest zoom

class Timeline {
  constructor(history, tones) {
    this.history = history;
    this.painter = new Painter($("canvas"), history, tones);
    this.overview = new Overview($("overview"), history, tones);
    this.from = 0;
    this.until = history.end;
    this.chosen = null;
    this.due = false;
    this.listen();
    this.fit();
    if (history.shortest) this.lookAt({ ...extent(history.shortest), kind: "violation", record: history.shortest }, false);
  }

  fit() {
    this.painter.fit();
    this.overview.fit();
    this.draw();
  }

  /** Show this part of the run, as far as there is one. */
  show(from, until) {
    const { end } = this.history;
    const span = Math.min(Math.max(until - from, LEAST), end);
    this.from = Math.max(0, Math.min((from + until - span) / 2, end - span));
    this.until = this.from + span;
    showCard([]);
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.due = false;
    this.painter.paint(this.from, this.until, this.chosen);
    this.overview.paint(this.from, this.until);
    const digits = tickStep((this.until - this.from) / 100).digits;
    $("range").textContent = `${moment(this.from, digits)} – ${moment(this.until, digits)}`;
    // What is where on the canvas, for tests.
    const { left, top, size } = this.painter;
    Object.assign($("canvas").dataset, { from: this.from, until: this.until, left, top, lane: size.height });
  }

  move(part) {
    const by = part * (this.until - this.from);
    const fitting = Math.max(-this.from, Math.min(by, this.history.end - this.until));
    this.show(this.from + fitting, this.until + fitting);
  }

  /** Zoom by a factor; the moment `at` stays where it is. */
  zoom(factor, at = (this.from + this.until) / 2) {
    const span = this.until - this.from;
    const wanted = Math.min(Math.max(span * factor, LEAST), this.history.end);
    const from = at - ((at - this.from) / span) * wanted;
    const fitting = Math.max(0, Math.min(from, this.history.end - wanted));
    this.show(fitting, fitting + wanted);
  }

  whole() {
    this.show(0, this.history.end);
  }

  /** Centre a mark, near enough to see it, and tell about it. */
  lookAt(mark, told = true) {
    this.chosen = mark;
    const ttl = this.history.run.ttl || this.history.end / 20;
    const length = mark.until - mark.from;
    const span = Math.min(this.until - this.from, Math.max(2.5 * length, 4 * ttl, LEAST));
    const least = Math.max(span, 1.6 * length);
    const middle = (mark.from + mark.until) / 2;
    this.centre(middle, least);
    if (!told) return;
    $("spoken").textContent = sentence(mark);
    $("canvas").scrollIntoView({ block: "nearest" });
    this.draw();
    const box = $("canvas").getBoundingClientRect();
    showCard([mark], box.left + this.painter.x(middle), this.heightOf(mark, box));
  }

  /** As `show`, but the middle stays the middle also near the ends of the run, if there is enough of it. */
  centre(middle, span) {
    const half = Math.min(span / 2, Math.max(middle, LEAST), Math.max(this.history.end - middle, LEAST));
    if (half > span / 8) this.show(middle - half, middle + half);
    else this.show(middle - span / 2, middle + span / 2);
  }

  heightOf(mark, box) {
    const lane = mark.kind === "violation" ? null : this.history.laneOf(mark.record);
    return box.top + (lane ? this.painter.laneTop(lane.number) + this.painter.size.writes : AXIS);
  }

  /** Go to the next mark, or with -1 to the previous one. */
  step(direction) {
    const { marks } = this.history;
    if (!marks.length) {
      $("spoken").textContent = "There is no violation and no refused write.";
      return;
    }
    const known = marks.findIndex((each) => each.record === this.chosen?.record);
    const middle = (this.from + this.until) / 2;
    const beyond = marks.findIndex((each) => each.from > middle);
    const whole = this.until - this.from >= this.history.end;
    const near = direction > 0 ? (beyond < 0 ? 0 : beyond) : (beyond < 0 ? marks.length : beyond) - 1;
    const first = !whole ? near : direction > 0 ? 0 : marks.length - 1;
    const next = known < 0 ? first : known + direction;
    this.lookAt(marks[(next + marks.length) % marks.length]);
  }

  hover(event) {
    const things = event.offsetX < this.painter.left ? [] : thingsAt(this.painter, event.offsetX, event.offsetY);
    showCard(things, event.clientX, event.clientY);
  }

  act(name) {
    const acts = {
      earlier: () => this.move(-0.2), later: () => this.move(0.2), in: () => this.zoom(0.6), out: () => this.zoom(1 / 0.6),
      whole: () => this.whole(), next: () => this.step(1), previous: () => this.step(-1), hide: () => showCard([]),
    };
    acts[name]?.();
  }

  listen() {
    for (const button of document.querySelectorAll("[data-act]")) button.addEventListener("click", () => this.act(button.dataset.act));
    document.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.fit()).observe($("timeline"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.fit());
    // Paper is white.
    addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; this.fit(); });
    addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; this.fit(); });
    listenToCanvas(this, $("canvas"));
    listenToOverview(this, $("overview"));
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = document.activeElement;
    if (place !== document.body && !$("timeline").contains(place)) return;
    const act = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "=": "in", "-": "out", 0: "whole", n: "next", p: "previous", Escape: "hide" }[event.key];
    if (!act) return;
    event.preventDefault();
    this.act(act);
  }
}

/** Wheel, drag, two fingers and hover. */
function listenToCanvas(timeline, canvas) {
  const { painter } = timeline;
  const pointers = new Map();
  const spread = () => {
    const xs = [...pointers.values()];
    return { middle: (xs[0] + xs.at(-1)) / 2, width: Math.max(20, Math.abs(xs[0] - xs.at(-1))) };
  };
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const whole = timeline.until - timeline.from >= timeline.history.end;
    // At the whole run there is nothing to zoom out to: let the page scroll.
    if (whole && (event.deltaY > 0 || sideways)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) timeline.move((sideways * lines) / painter.width);
    else timeline.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * lines)) * 0.0025), painter.at(Math.max(painter.left, event.offsetX)));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event.offsetX);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      if (event.pointerType === "mouse") timeline.hover(event);
      return;
    }
    const before = spread();
    pointers.set(event.pointerId, event.offsetX);
    const after = spread();
    timeline.move((before.middle - after.middle) / (painter.width - painter.left));
    if (pointers.size > 1) timeline.zoom(before.width / after.width, painter.at(after.middle));
  });
  const ended = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener("pointerup", (event) => {
    ended(event);
    timeline.hover(event);
  });
  canvas.addEventListener("pointercancel", ended);
  canvas.addEventListener("pointerleave", () => showCard([]));
}

function listenToOverview(timeline, canvas) {
  const go = (event) => {
    const half = (timeline.until - timeline.from) / 2;
    const middle = Math.max(half, Math.min(timeline.overview.at(event.offsetX), timeline.history.end - half));
    timeline.show(middle - half, middle + half);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    // To press on the whole run zooms in first, or nothing would move.
    if (timeline.until - timeline.from > timeline.history.end / 2) timeline.zoom(0.2);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) go(event);
  });
}
