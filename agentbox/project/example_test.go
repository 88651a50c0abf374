package project_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox/project"
)

// Clones of one repository are one project, however they were cloned; without an origin the path
// is.
func ExampleIdentify() {
	dir, err := os.MkdirTemp("", "clones")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for i, origin := range []string{"git@Example.com:org/app.git", "https://example.com/org/app", "ssh://git@example.com:22/org/app.git"} {
		root := filepath.Join(dir, fmt.Sprint(i))
		config := "[remote \"origin\"]\n\turl = " + origin + "\n"
		if err := os.MkdirAll(filepath.Join(root, ".git"), 0o700); err != nil {
			fmt.Println(err)
			return
		}
		if err := os.WriteFile(filepath.Join(root, ".git", "config"), []byte(config), 0o600); err != nil {
			fmt.Println(err)
			return
		}
		p, err := project.Identify(context.Background(), root)
		fmt.Println(p, p.ID()[:12], err)
	}
	// Output:
	// example.com/org/app 663a5a4e6672 <nil>
	// example.com/org/app 663a5a4e6672 <nil>
	// example.com/org/app 663a5a4e6672 <nil>
}
