// Command listfmt lists the Go files below a directory that gofmt would change, as `gofmt -l` does,
// and exits with 1 if there are any.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	status := 0
	err := filepath.WalkDir(os.Args[1], func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if formatted, err := format.Source(source); err != nil || !bytes.Equal(source, formatted) {
			fmt.Println(path)
			status = 1
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		status = 2
	}
	os.Exit(status)
}
