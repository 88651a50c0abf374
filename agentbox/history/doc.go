// Package history judges what boxes hand over of an agent's conversations, and keeps it as an
// archive that is never unpacked on this machine. What a box wrote is data: names, kinds, sizes and
// numbers are held to bounds here, and nothing but plain files gets through. It knows no boxes.
package history
