// Package blob defines what the store keeps and what peers exchange: chunks, manifests and signed
// names, and how they are encoded. It opens no file and no connection.
//
// A chunk is at most MaxChunk bytes, named by their SHA-256. A blob is any number of bytes, cut
// into chunks. A disk image is cut every BlockSize bytes, so that the offset of a chunk does not
// depend on the others. A stream is cut where its content says so (FastCDC), so that an insertion
// changes a chunk or two and not all that follow. A manifest lists the chunks of a blob and is
// itself a chunk. A name states which manifest a key stands for, and is signed by its producer.
//
// Nothing here trusts its input: every decoder is bounded, refuses what its encoder would not have
// written, and has a fuzz target.
package blob
