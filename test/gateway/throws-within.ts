// Loaded into a gateway before it starts (`node --import`): a defect in the way of one request, where its path is looked up.
const get = Map.prototype.get;
Map.prototype.get = function (key: unknown) {
  if (key === '/v1/defective') throw new Error('planted in a request');
  return get.call(this, key);
};
