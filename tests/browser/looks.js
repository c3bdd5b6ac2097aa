// What can be said of any page by looking at it; each function returns what is wrong.

const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
canvas.canvas.width = canvas.canvas.height = 1;
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function behind(element) {
  for (let e = element; e; e = e.parentElement) {
    const found = rgba(getComputedStyle(e).backgroundColor);
    if (found[3] === 255) return found;
  }
  return [255, 255, 255, 255];
}
function light([r, g, b]) {
  const [x, y, z] = [r, g, b].map(v => v / 255).map(
    v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

// Return text of less contrast with what is behind it than 4.5 to 1, or 3 to 1 if it is large.
function faint() {
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const words = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!words || !e.getClientRects().length || ['title', 'desc', 'option'].includes(e.localName)) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const ink = rgba(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if ((a + 0.05) / (b + 0.05) < least) {
      found.push(`${e.localName}.${e.getAttribute('class')}: ${e.textContent.trim().slice(0, 30)}`);
    }
  }
  return found;
}

// Return elements that stick out of the page; code, and tables of the documentation, may scroll.
function wide() {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push(`page ${document.documentElement.scrollWidth}`);
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg') !== e && e.closest('svg')) continue;
    if (e.parentElement.closest('.docs table, pre, .skip') || e.matches('.skip')) continue;
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) {
      found.push(`${e.localName}.${e.getAttribute('class')} ${box.left}..${box.right}`);
    }
  }
  return found.slice(0, 5);
}

// Return what a screen reader has no name for, identifiers that are not unique, and style in place.
function unnamed() {
  const found = [], seen = new Set();
  for (const e of document.querySelectorAll('[id]')) {
    if (seen.has(e.id)) found.push(`id ${e.id}`);
    seen.add(e.id);
  }
  for (const e of document.querySelectorAll('a[href], button, input, select, [role=img]')) {
    const label = e.closest('label') || e.querySelector(':scope > title') || e;
    if (e.hidden || e.type === 'hidden') continue;
    if (!e.getAttribute('aria-label') && !label.textContent.trim()) found.push(e.outerHTML.slice(0, 80));
  }
  for (const e of document.querySelectorAll('[style], style, script:not([src])')) found.push(e.outerHTML.slice(0, 80));
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  if (!document.documentElement.lang) found.push('no lang');
  return found;
}
