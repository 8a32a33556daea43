"""Tables: the operators of CREATE TABLE, INSERT, COPY FROM, DELETE, UPDATE and ALTER TABLE."""
