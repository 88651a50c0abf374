package blob

import (
	"errors"
	"io"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc" // registers the algorithm
)

// algorithm is FastCDC (Xia and others, USENIX ATC 2016) with the masks as corrected in v1.0.0 of
// the library. It is part of the format, because the cuts decide which chunks two streams have in
// common.
const algorithm = "fastcdc-v1.0.0"

// Split cuts a stream at places that depend on its content, and calls each for every chunk in
// order. The slice is valid during the call only. The same bytes are cut in the same way on every
// machine.
func Split(r io.Reader, each func(p []byte) error) error {
	c, err := chunkers.NewChunker(algorithm, r, &chunkers.ChunkerOpts{MinSize: MinChunk, NormalSize: AvgChunk, MaxSize: MaxChunk})
	if err != nil {
		return err
	}
	for {
		p, err := c.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(p) > 0 {
			if err := each(p); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
