// Package compare compares two files as larder diff and the page of larder serve show it: two Sides, what is the same
// of both (Run), the fields that two states of an object have different (Fields), and which of their values are not
// shown (Concealed).
package compare
