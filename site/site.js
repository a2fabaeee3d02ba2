// What the pages lack for the keyboard and for screen readers.

{
  const toggle = document.getElementById("mdbook-sidebar-toggle");
  const box = document.getElementById(toggle.htmlFor);
  toggle.removeAttribute("for"); // a label cannot be a button
  toggle.role = "button";
  toggle.tabIndex = 0;
  toggle.addEventListener("click", () => box.click());
  toggle.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle.click();
  });
  document.getElementById("mdbook-menu-bar").role = "banner";
  for (const scrolled of document.querySelectorAll("pre code, .table-wrapper")) scrolled.tabIndex = 0;
  for (const cell of document.querySelectorAll("th:empty")) cell.replaceWith(document.createElement("td"));
  for (const head of document.querySelectorAll("thead:not(:has(th))")) head.remove();
}
