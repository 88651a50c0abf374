// Package page is the page of `agentbox ui`: plain files for a browser, which calls the door as any
// client does. It has no logic of boxes and no build chain.
package page
