//go:build !linux

package disk

import "io"

func (f osFile) Sync() error { return f.File.Sync() }

func (f osFile) Punch(off, n int64) error { return writeZeros(f, off, n) }

// NextData knows of no holes: everything is data.
func (f osFile) NextData(off int64) (start, end int64, err error) {
	st, err := f.Stat()
	if err == nil && off >= st.Size {
		err = io.EOF
	}
	return off, st.Size, err
}
