// Numbers and times for people. Pure, but for the locale and time zone of the browser.

/** "4 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"; "–" for what never was. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return pair(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

function pair(major, majorUnit, minor, minorUnit) {
  return minor ? `${major} ${majorUnit} ${minor} ${minorUnit}` : `${major} ${majorUnit}`;
}

/** Four significant digits and the currency, as the logs of tasks have it: "0.0421 EUR". */
export function money(amount, currency) {
  const digits = amount === 0 ? "0" : amount >= 1000 ? amount.toFixed(0) : String(Number(amount.toPrecision(4)));
  return currency ? `${digits} ${currency}` : digits;
}

/** Whole number with the locale's separators. */
export function count(number) {
  return number.toLocaleString("en");
}

/** "just now", "5 min ago", "3 h ago", then the date. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max((now - time.getTime()) / 1000, 0);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(Math.round(seconds / 60), 1)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 7 * 86400) return `${Math.round(seconds / 86400)} d ago`;
  return time.toLocaleDateString("en-CA");
}

/** "2026-11-20 21:06:16", in the browser's time zone, with its name. */
export function moment(time) {
  const text = time.toLocaleString("sv-SE", { hour12: false });
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(time);
  return `${text} ${zone.find((part) => part.type === "timeZoneName")?.value ?? ""}`.trim();
}

/** "1.5 GiB". */
export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = number;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toPrecision(3) : value} ${units[unit]}`;
}
