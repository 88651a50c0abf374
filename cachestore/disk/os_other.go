//go:build !linux

package disk

import "io"

func (o osFile) Sync() error { return o.File.Sync() }

func (o osFile) Punch(off, n int64) error { return writeZeros(o, off, n) }

// NextData knows of no holes: everything is data.
func (o osFile) NextData(off int64) (start, end int64, err error) {
	st, err := o.Stat()
	if err == nil && off >= st.Size {
		err = io.EOF
	}
	return off, st.Size, err
}
