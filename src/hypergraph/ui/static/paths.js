// @ts-check
/** Parts of a JSON value by their path. Nothing here touches the page. */

/** @param {string} path @param {string | number} key */
export function pointer(path, key) {
  return `${path}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/**
 * Return the paths whose key or text contains a text, whatever the case; at most `most` of them.
 * @param {any} value @param {string} text @param {number} most @returns {{path: string, text: string}[]}
 */
export function findPaths(value, text, most = 200) {
  const wanted = text.toLowerCase();
  /** @type {{path: string, text: string}[]} */
  const found = [];
  /** @param {any} part @param {string} path @param {string} key */
  const look = (part, path, key) => {
    if (found.length >= most) return;
    const isInner = part !== null && typeof part === "object";
    const shown = isInner ? (Array.isArray(part) ? `${part.length} items` : `${Object.keys(part).length} keys`) : String(part);
    if (key.toLowerCase().includes(wanted) || (!isInner && shown.toLowerCase().includes(wanted))) found.push({ path, text: shown });
    if (isInner) for (const [name, one] of Object.entries(part)) look(one, pointer(path, name), Array.isArray(part) ? "" : name);
  };
  look(value, "", "");
  return found;
}
