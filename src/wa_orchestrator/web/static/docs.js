// Starts Swagger UI. A file of its own, because the page's policy allows no script within the page.

const place = document.getElementById('docs')

SwaggerUIBundle({
  domNode: place,
  url: place.dataset.description,
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null, // its badge would send the description to another host
})
