// Package page is the page of `agentbox ui`: plain files for a browser, which calls the door as any
// client does. It has no logic of boxes; its terminal comes from npm when the product is built
// (build.sh).
package page
