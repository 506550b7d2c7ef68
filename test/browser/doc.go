// Package browser tests the page of larder serve and larder sync --serve in headless Chromium, over mirrors of a
// kube-apiserver and over snapshots. It also takes the screenshots of docs/page.md:
//
//	go -C test/browser test -run '^TestPictures$' -docs.update .
//
// Each test fails on errors in the browser console and on requests to other servers. Most tests also check
// accessibility by keyboard and screen reader, as far as a program can (checkAccessibility).
package browser
