package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ReadJSON decodes a file into v. A file that does not exist leaves v unchanged. Errors name the
// file.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if err = json.Unmarshal(b, v); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return err
}

// WriteJSON writes v as JSON by WriteFile.
func WriteJSON(path string, v any, perm fs.FileMode) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFile(path, b, perm)
}
