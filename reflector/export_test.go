package reflector

// IsCut is isCut for tests in package reflector_test.
var IsCut = isCut
