"""What tests of several layers share; no test file imports another."""
