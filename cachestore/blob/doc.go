// Package blob defines what the store keeps and what peers exchange: chunks, manifests and signed
// names, and their bytes. It opens no file and no connection.
//
// Words: a chunk is at most MaxChunk bytes, named by their SHA-256. A blob is any number of bytes,
// cut into chunks: at every BlockSize bytes when it is a disk image, so that a chunk's place is
// known without the others; where the content says so (FastCDC) when it is a stream, so that an
// insertion changes a chunk or two and not all that follow. A manifest lists the chunks of a blob
// and is itself a chunk. A name says which manifest a key stands for, and who says so.
//
// Nothing here trusts its input: every decoder is bounded, refuses what its encoder would not have
// written, and has a fuzz target.
package blob
