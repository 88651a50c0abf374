package disk

import "io"

// writeZeros stands in for a hole: it reads the same and takes the space.
func writeZeros(w io.WriterAt, off, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		m := min(n, int64(len(zeros)))
		if _, err := w.WriteAt(zeros[:m], off); err != nil {
			return err
		}
		off, n = off+m, n-m
	}
	return nil
}
