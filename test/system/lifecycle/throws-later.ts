// Loaded into a gateway before it starts (`node --import`): a defect that shows itself at a signal, outside any request.
process.on('SIGUSR2', () => {
  if (process.env.DEFECT === 'rejection') void Promise.reject(new Error('planted rejection'));
  else
    setImmediate(() => {
      throw new Error('planted exception');
    });
});
