package artifact_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox/artifact"
)

// A statement says which files a task left, and what signed it is a host. Files that were changed
// since do not match.
func ExampleSign() {
	dir, err := os.MkdirTemp("", "artifacts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "report.txt"), []byte("all tests pass\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	files := []artifact.File{{Name: "report.txt", Size: 15, SHA256: "901b372e59bae8f79265c298e74a23fb626c6f699f8ee38239cf8b9354102c84"}}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	ctx := context.Background()
	envelope, err := artifact.Sign(ctx, artifact.NewStatement(files, artifact.Predicate{Task: "t-12345678", Attempt: 1}), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	statement, err := artifact.Open(ctx, bytes.NewReader(envelope), key.Public().(ed25519.PublicKey))
	if err != nil {
		fmt.Println(err)
		return
	}
	print := func() {
		checked, err := artifact.Check(statement, dir)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(statement.Predicate.Task, checked[0].Name, checked[0].State)
	}
	print()
	if err := os.WriteFile(filepath.Join(dir, "report.txt"), []byte("no tests failed\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	print()
	// Output:
	// t-12345678 report.txt ok
	// t-12345678 report.txt changed
}
