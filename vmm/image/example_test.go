package image_test

import (
	"fmt"
	"strings"

	"agentbox/vmm/image"
)

// A lock file pins what a recipe gave: who builds it later gets these versions, and asks the team
// for these very bytes.
func ExampleParseLock() {
	lock, err := image.ParseLock(strings.NewReader(`
version: 1
images:
  - source: apt:bookworm
    packages: [git, make]
    platform: linux/amd64
    image: sha256:`+strings.Repeat("ab", 32)+`
    versions: ["git=1:2.39.5", "make=4.3"]
`), "agentbox.lock")
	if err != nil {
		fmt.Println(err)
		return
	}
	recipe, pin := lock.Pin(image.Recipe{Source: "apt:bookworm", Packages: []string{"make", "git"}, Platform: "linux/amd64"})
	fmt.Println(pin.Short(), recipe.Versions)
	_, pin = lock.Pin(image.Recipe{Source: "apt:trixie", Platform: "linux/amd64"})
	fmt.Println("pinned:", !pin.IsZero())
	_, err = image.ParseLock(strings.NewReader("version: 2\n"), "agentbox.lock")
	fmt.Println(err)
	// Output:
	// abababababab [git=1:2.39.5 make=4.3]
	// pinned: false
	// agentbox.lock is damaged: it says version 2, and this agentbox reads version 1
}
