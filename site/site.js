// What the pages lack for the keyboard and for screen readers.

{
  const label = document.getElementById("mdbook-sidebar-toggle");
  const box = document.getElementById(label.htmlFor);
  const button = document.createElement("button");
  for (const { name, value } of label.attributes) if (name !== "for") button.setAttribute(name, value);
  button.append(...label.childNodes);
  button.addEventListener("click", () => {
    box.click();
    button.ariaExpanded = box.checked;
  });
  label.replaceWith(button);
  document.getElementById("mdbook-menu-bar").role = "banner";
  for (const scrolled of document.querySelectorAll("pre code, .table-wrapper")) scrolled.tabIndex = 0;
  for (const cell of document.querySelectorAll("th:empty")) cell.replaceWith(document.createElement("td"));
  for (const head of document.querySelectorAll("thead:not(:has(th))")) head.remove();
}
