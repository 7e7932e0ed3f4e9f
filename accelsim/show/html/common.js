"use strict";
// What the pages share: tables that a click on a head sorts, links that keep what is chosen, text to copy.

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => Number(value(a)) - Number(value(b)) || value(a).localeCompare(value(b), "en", { numeric: true });
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => (down ? -1 : 1) * compare(a, b)));
  }));
}

const controls = () => document.querySelectorAll("select, input");
const said = (control) => (control.type === "checkbox" ? String(Number(control.checked)) : control.value);
const linked = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Set the controls as the address asks for, where they can be; returns what else it asks for, by name. */
function openLink() {
  const asked = linked();
  for (const control of controls()) {
    const usual = control.dataset.usual = said(control), value = asked[control.id];
    if (value === undefined) continue;
    if (control.type === "checkbox") control.checked = value === "1";
    else control.value = value;
    if (said(control) === "") control.value = usual;
  }
  addEventListener("hashchange", () => location.reload());
  return asked;
}

/** Write what is chosen into the address: the controls that are not as usual, and more by name. */
function keepLink(more) {
  const chosen = new URLSearchParams(Object.entries(more).filter(([, value]) => value !== ""));
  for (const control of controls()) if (said(control) !== control.dataset.usual) chosen.set(control.id, said(control));
  history.replaceState(null, "", `#${chosen}`);
}

/** Copy the text of an element, which stays selected. */
async function copyText(button, shown) {
  getSelection().selectAllChildren(shown);
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(shown.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected: press Ctrl-C";
  }
  setTimeout(() => { button.textContent = name; }, 1500);
}

for (const table of document.querySelectorAll("table.sortable")) sortable(table);
