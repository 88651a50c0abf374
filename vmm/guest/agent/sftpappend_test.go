package agent

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
)

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// Whatever a client sends after it opened a file for appending, the server's stream goes on or ends.
func FuzzAppends(f *testing.F) {
	write := append([]byte{0, 0, 0, 22, sftpWrite, 0, 0, 0, 2, 0, 0, 0, 1, '1'}, make([]byte, 12)...)
	f.Add(write)
	f.Add([]byte{0, 0, 0, 10, sftpClose, 0, 0, 0, 3, 0, 0, 0, 1, '1'})
	f.Add([]byte{0, 0, 0, 9, sftpWrite, 0, 0, 0, 2, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, packets []byte) {
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, []byte("first"), 0o600); err != nil {
			t.Fatal(err)
		}
		open := append([]byte{sftpOpen, 0, 0, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(name)))...)
		open = binary.BigEndian.AppendUint32(append(open, name...), sftpForAppend)
		a := newAppends(io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, uint32(len(open)))), bytes.NewReader(open), bytes.NewReader(packets)), discard{io.Discard})
		if _, err := io.CopyN(io.Discard, a, int64(4+len(open))); err != nil {
			t.Fatal(err)
		}
		a.Write([]byte{0, 0, 0, 10, sftpHandle, 0, 0, 0, 1, 0, 0, 0, 1, '1'})
		io.Copy(io.Discard, a)
		if got, err := os.ReadFile(name); err != nil || !bytes.HasPrefix(got, []byte("first")) {
			t.Errorf("%q, %v", got, err)
		}
	})
}
