for (const box of document.querySelectorAll("[data-filters]")) {
  box.addEventListener("input", () => {
    const wanted = box.value.toLowerCase();
    let shown = 0;
    for (const example of document.getElementById(box.dataset.filters).children) {
      example.hidden = !example.textContent.toLowerCase().includes(wanted);
      shown += !example.hidden;
    }
    box.closest("p").querySelector("output").textContent = `${shown} shown`;
  });
}
