// The whole run in small: how much of the time somebody held, the faults, refused writes and violations.

const ROW = 8;

class Overview {
  constructor(canvas, history, tones) {
    Object.assign(this, { canvas, history, tones, context: canvas.getContext("2d"), height: 52 });
  }

  fit() {
    this.width = fitCanvas(this.canvas, this.height);
    this.colours = palette();
    this.drawing = document.createElement("canvas");
    this.drawing.width = this.canvas.width;
    this.drawing.height = this.canvas.height;
    this.draw(this.drawing.getContext("2d"));
  }

  x(at) {
    return (at / this.history.end) * this.width;
  }

  at(x) {
    return (x / this.width) * this.history.end;
  }

  /** What does not change when the view moves. */
  draw(context) {
    const { colours, history, height } = this;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, this.width, height);
    context.fillStyle = colours.stall;
    context.globalAlpha = 0.25;
    for (const stall of history.stalls) this.bar(context, stall.at, stall.until, 0, height);
    context.globalAlpha = 0.75;
    context.fillStyle = colours.s0;
    const shares = this.shares();
    const tall = height - ROW - 8;
    for (const [x, share] of shares.entries()) context.fillRect(x, height - 2 - share * tall, 1, share * tall);
    context.globalAlpha = 1;
    for (const fault of history.faults) {
      context.fillStyle = colours[this.tones.faults.get(fault.kind) ?? "f0"];
      this.bar(context, fault.at, fault.until ?? history.end, 2, ROW);
    }
    context.fillStyle = colours.refused;
    for (const write of history.refused) context.fillRect(this.x(write.at) - 1, ROW + 4, 2, 8);
    context.fillStyle = colours.bad;
    for (const violation of history.violations) {
      const span = extent(violation);
      if (!span) continue;
      context.globalAlpha = 0.3;
      this.bar(context, span.from, span.until, 0, height, 2);
      context.globalAlpha = 1;
      this.bar(context, span.from, span.until, height - 4, 4, 3);
    }
  }

  bar(context, from, until, y, height, least = 1) {
    const x = this.x(from);
    context.fillRect(x, y, Math.max(least, this.x(until ?? from) - x), height);
  }

  /** For each pixel, which part of its time was held: 0 to 1. */
  shares() {
    const shares = new Float64Array(Math.max(1, Math.ceil(this.width)));
    const most = this.history.run.permits || 1;
    for (const lane of this.history.lanes) {
      for (const grant of lane.grants.items) {
        const [from, until] = [this.x(grant.at), this.x(sureUntil(grant))];
        for (let x = Math.floor(from); x <= until && x < shares.length; x++) {
          shares[x] += Math.max(0, Math.min(until, x + 1) - Math.max(from, x)) / most;
        }
      }
    }
    return shares.map((share) => Math.min(1, share));
  }

  paint(from, until) {
    const { context, colours, height, width } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.drawing, 0, 0);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const [left, right] = [this.x(from), Math.max(this.x(until), this.x(from) + 3)];
    context.fillStyle = colours.ground;
    context.globalAlpha = 0.62;
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, left), 1, Math.min(width - 1, right) - Math.max(1, left), height - 2);
  }
}
