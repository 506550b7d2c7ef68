// Package browser tests the page of larder serve and larder sync --serve in a real, headless Chromium, as somebody
// meets it who looks: over mirrors of a real kube-apiserver, and over snapshots. It also makes the pictures of
// docs/page.md:
//
//	go -C test/browser test -run '^TestPictures$' -docs.update .
//
// Every test fails if the console has an error, or if anything is requested from elsewhere than larder. Most also fail
// if what is shown cannot be used without a mouse or without eyes, as far as a program can tell (lookOver).
package browser
